package clusterapi

import "time"

// LookEvery makes a connection look more often whether it is as it was. It is to be called before Start.
func (c *Connection) LookEvery(every time.Duration) { c.every = every }
