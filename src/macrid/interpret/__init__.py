"""What a trained model has learned, for people: maps and pictures of them."""
