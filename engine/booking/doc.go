// Package booking makes ProvisioningRequests count: it reads what they ask for and what has become of them, makes pods that stand in
// plans for those that have yet to come, and says what a plan means for a request's conditions. A request is pods that find room all
// together or not at all; its room is then held for some minutes, until the pods come.
package booking
