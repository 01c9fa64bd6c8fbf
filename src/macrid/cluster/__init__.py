"""Work that Ray spreads over processes and machines: recommendations in parts, and the trainings of a search."""
