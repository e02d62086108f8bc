#!/bin/sh
# Write the broker's files, and give the server and each phone the one file that it needs.
# Run it once, before `podman-compose up`. ENGINE=docker uses Docker.
set -eu
engine=${ENGINE:-podman}
phones="honor lenovo zte mi nexus"

broker() {
    action=$1
    shift
    "$engine" run --rm --volume dealfl-broker:/broker dealfl broker "$action" /broker "$@"
}

hand_over() { # FILE VOLUME FOLDER NAME
    "$engine" run --rm --volume dealfl-broker:/broker --volume "$2:$3" --entrypoint cp dealfl \
        -p "/broker/$1" "$3/$4"
}

broker init --job heating --host broker --listen 0.0.0.0
# shellcheck disable=SC2086
broker enrol $phones
broker enrol operator --operator
hand_over server.toml dealfl-server /server server.toml
for phone in $phones; do
    hand_over "devices/$phone.toml" "dealfl-$phone" /phone device.toml
done
