// Package inventory joins the pods, nodes, claims and catalogs of a Snapshot into machines and their pods. It adds prices, the launches and
// disruptions that are in progress, and facts that running machines tell about machines like them.
//
// Its Cache remembers from call to call what has been read. Deciders keep there what they remember themselves (KeptBy).
package inventory
