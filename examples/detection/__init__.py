"""What `detection_module.py` imports: drawn scenes."""
