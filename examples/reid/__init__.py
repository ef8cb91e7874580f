"""What `lightning_module.py` imports: data sets, drawn or read, a network and its losses, a picture of the data."""
