package cloud

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resourcegraph/armresourcegraph"
)

// Query queries the resource graph, which lags behind by seconds to minutes. Rows are JSON objects.
func (c *Cloud) Query(ctx context.Context, query string) (rows []map[string]any, err error) {
	const call = "Resources"
	format, next := armresourcegraph.ResultFormatObjectArray, (*string)(nil)
	for {
		answer, err := c.graph.Resources(ctx, armresourcegraph.QueryRequest{
			Query: &query, Subscriptions: []*string{&c.Subscription}, Options: &armresourcegraph.QueryRequestOptions{ResultFormat: &format, SkipToken: next},
		}, nil)
		if err != nil {
			return nil, decode(call, "", false, err)
		}
		data, isList := answer.Data.([]any)
		if !isList {
			return nil, brokenError(call, "", "the answer holds no rows")
		}
		for _, each := range data {
			if row, isObject := each.(map[string]any); isObject {
				rows = append(rows, row)
			}
		}
		if next = answer.SkipToken; next == nil || *next == "" {
			return rows, nil
		}
	}
}
