"""The two apps; the job file says the rest."""

from dealfl.flower import client_app, server_app

server = server_app()
client = client_app()
