"""What a model is made of: losses, penalties, geometries and algorithms; none of them knows about data or files."""
