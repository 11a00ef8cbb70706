// Package inventory joins the pods, nodes, claims and catalogs of a Snapshot into machines and their pods. It adds prices, the launches and
// disruptions that are in progress, and facts that are learned from running machines about machines of the same type.
//
// Its Cache keeps the data that was read from call to call. Deciders keep their own data there too (KeptBy).
package inventory
