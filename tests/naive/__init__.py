"""Plain-Python twins of what sparklog does fast: short, slow and easy to believe."""
