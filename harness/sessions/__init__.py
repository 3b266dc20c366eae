"""Sessions: what agents' clients wrote about a conversation, read without loss, shown in pages."""
