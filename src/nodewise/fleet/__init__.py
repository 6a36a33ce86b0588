"""Outside: replicas of a server, and the load that is put on them."""
