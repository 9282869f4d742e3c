"""Keys and ciphers that use cryptography."""
