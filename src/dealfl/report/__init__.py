"""What is shown to people: experiments and their results."""
