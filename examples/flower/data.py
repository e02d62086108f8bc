"""Write homes.csv in the folder that is given, and one file for each of three SuperNodes."""

import random
import sys
from pathlib import Path

folder = Path(sys.argv[1])
draw = random.Random(7)
lines = []
for number in range(400):
    outside_c, rooms = draw.randint(-10, 20), draw.randint(1, 9)
    kwh = 40 + 5 * rooms - 2 * outside_c + draw.randint(-4, 4)
    lines.append((number % 40, f"home{number % 40},{outside_c},{rooms},{kwh}\n"))
head = "home,outside_c,rooms,kwh\n"
(folder / "homes.csv").write_text(head + "".join(line for _, line in lines))
for node in range(3):
    own = [line for home, line in lines if home % 3 == node]
    (folder / f"node{node + 1}.csv").write_text(head + "".join(own))
