"""`warpsight mcp`: traces for agents, over the Model Context Protocol. Read-only, bounded, confined to given folders."""
