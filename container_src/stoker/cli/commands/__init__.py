"""What each verb of `stoker` does, one module per verb; loaded when the verb is used."""
