"""What a trained MacridVAE means to people: its space, axes, names and the evidence for them."""
