"""What the parts of Stoker tell each other: one module per file schema; standard library only."""
