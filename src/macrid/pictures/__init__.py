"""Maps, plots, strips and the studio's layout."""
