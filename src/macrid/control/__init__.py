"""What people do with a trained model: walk from item to item, and move what is recommended."""
