package cloud

import (
	"context"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// deleteMachines ends the path of the call that deletes machines of an agent pool.
const deleteMachines = "/deleteMachines"

// BeginDeleteMachines makes AKS delete machines of an agent pool, given by its ID, with their virtual machines.
func (c *Cloud) BeginDeleteMachines(ctx context.Context, pool string, names ...string) (*Operation, error) {
	const call = "AgentPools_DeleteMachines"
	about := pool
	if len(names) > 0 {
		about = names[0]
	}
	client, err := arm.NewClient("tenon.sh/provider/azure/cloud", "v1.0.0", c.config.Credential, &c.config.Options)
	if err != nil {
		return nil, decode(call, about, false, err)
	}
	return begin(ctx, c, call, about, func(ctx context.Context) (*runtime.Poller[struct{}], error) {
		request, err := runtime.NewRequest(ctx, http.MethodPost, runtime.JoinPaths(client.Endpoint(), pool+deleteMachines)+"?api-version=2025-02-01")
		if err != nil {
			return nil, err
		}
		if err := runtime.MarshalAsJSON(request, map[string][]string{"machineNames": names}); err != nil {
			return nil, err
		}
		answer, err := client.Pipeline().Do(request)
		if err != nil {
			return nil, err
		}
		if !runtime.HasStatusCode(answer, http.StatusOK, http.StatusAccepted, http.StatusNoContent) {
			return nil, runtime.NewResponseError(answer)
		}
		return runtime.NewPoller[struct{}](answer, client.Pipeline(), nil)
	})
}
