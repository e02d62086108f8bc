#!/usr/bin/env python3
"""The state of an Android phone for `dealfl work --device-command`, from Termux:API.

usage: termux_device.py [--once] [--every SECONDS]

It prints an object of JSON whenever the state changes, and every few seconds while the mobile radio
is active; with --once, it prints one object and ends. It needs the app Termux:API and the package
termux-api, but neither dealfl nor any other package.

| key            | from                                                                         |
|----------------|------------------------------------------------------------------------------|
| battery        | `percentage` of termux-battery-status                                        |
| charging       | `plugged` of termux-battery-status is not UNPLUGGED                          |
| hot            | `health` of termux-battery-status is OVERHEAT                                |
| metered        | `supplicant_state` of termux-wifi-connectioninfo is not COMPLETED: no wifi.  |
|                | Termux:API does not tell whether a wifi network is metered.                  |
| network_active | without wifi: `data_activity` of termux-telephony-deviceinfo is in, out or   |
|                | inout. With wifi, Termux:API does not tell, and the key is left out.         |

What a command does not tell is left out, except that a phone without wifi counts as metered.
"""

import argparse
import json
import subprocess
import time

PATIENCE_S = 1.5  # for each command: dealfl waits five seconds for the first object
REPEAT_S = 5.0  # dealfl believes in an active network for ten seconds


def ask(command: str) -> dict[str, object]:
    """Return the answer of a command of Termux:API; nothing if it has none."""
    try:
        done = subprocess.run(  # noqa: S603 - one of the three below
            [command], capture_output=True, timeout=PATIENCE_S, check=True
        )
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return answer if isinstance(answer, dict) and "API_ERROR" not in answer else {}


def describe(
    battery: dict[str, object], wifi: dict[str, object], telephony: dict[str, object]
) -> dict[str, object]:
    """Return the object that dealfl expects, from three answers of Termux:API."""
    state: dict[str, object] = {}
    percentage = battery.get("percentage")
    if isinstance(percentage, int | float) and 0 <= percentage <= 100:
        state["battery"] = percentage / 100
    if "plugged" in battery:
        state["charging"] = battery["plugged"] != "UNPLUGGED"
    if "health" in battery:
        state["hot"] = battery["health"] == "OVERHEAT"
    has_wifi = wifi.get("supplicant_state") == "COMPLETED"
    state["metered"] = not has_wifi
    if not has_wifi and "data_activity" in telephony:
        state["network_active"] = telephony["data_activity"] in ("in", "out", "inout")
    return state


def read_state() -> dict[str, object]:
    """Ask the phone."""
    names = ("termux-battery-status", "termux-wifi-connectioninfo", "termux-telephony-deviceinfo")
    return describe(*map(ask, names))


def main() -> None:
    """Print the state once, or whenever it changes."""
    parser = argparse.ArgumentParser(description="State of a phone, as JSON for dealfl.")
    parser.add_argument("--once", action="store_true", help="print one object and end")
    parser.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="default: 5")
    arguments = parser.parse_args()
    last: dict[str, object] = {}
    printed_s = 0.0
    while True:
        state = read_state()
        is_old = bool(state.get("network_active")) and time.monotonic() > printed_s + REPEAT_S
        if state != last or is_old:
            print(json.dumps(state), flush=True)
            last, printed_s = state, time.monotonic()
        if arguments.once:
            break
        time.sleep(arguments.every)


if __name__ == "__main__":
    main()
