// Package booking handles ProvisioningRequests: it reads their pod sets and their progress, makes pods that stand in plans for the announced pods,
// and computes a request's conditions from a plan. The pods of a request find room all together or not at all. Their room is then held for some
// minutes, until the pods come.
package booking
