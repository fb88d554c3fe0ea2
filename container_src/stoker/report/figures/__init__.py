"""What is known of a run, added up."""
