// Package volume finds out what the volumes of a pod need of the node that it runs on: where they are, or may be made, how many a node
// takes of each driver, and with whom they may be shared.
package volume
