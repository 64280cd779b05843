"""What readers share: sources, columns of text formats, JSON in pieces, ids."""
