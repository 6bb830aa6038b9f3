"""Plans: pure functions of an image that return an edit, or that nothing is to do (`Done`)."""
