"""A Flower app whose messages are dealfl's."""
