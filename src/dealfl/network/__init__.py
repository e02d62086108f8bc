"""The real network: server and workers as processes that exchange messages over MQTT."""
