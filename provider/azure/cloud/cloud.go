// Package cloud is the connection to Azure: the calls that a provider makes, through Azure's SDK, with errors that name a remedy. The request
// bodies are the SDK's types. Other packages decide which calls to make.
package cloud

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resourcegraph/armresourcegraph"
	"k8s.io/utils/clock"
)

// Config holds the settings of the connection.
type Config struct {
	Subscription, Location string
	Credential             azcore.TokenCredential
	// Options are the SDK's options: the cloud and the transport. The zero value is the public cloud.
	Options arm.ClientOptions
	// PricesURL is the address of the retail prices, "" for Azure's own.
	PricesURL string
	// May, unless it is nil, is called before each change. Its error prevents the change.
	May   func(what string) error
	Clock clock.Clock
}

// Cloud is a subscription in a location. It may be used from several goroutines.
type Cloud struct {
	Subscription, Location string

	config Config

	machines    *armcompute.VirtualMachinesClient
	extensions  *armcompute.VirtualMachineExtensionsClient
	disks       *armcompute.DisksClient
	skus        *armcompute.ResourceSKUsClient
	usage       *armcompute.UsageClient
	community   *armcompute.CommunityGalleryImagesClient
	versions    *armcompute.CommunityGalleryImageVersionsClient
	marketplace *armcompute.VirtualMachineImagesClient
	graph       *armresourcegraph.Client
	network     *arm.Client
}

// New makes the clients. It calls no service.
func New(config Config) (*Cloud, error) {
	if config.Subscription == "" || config.Location == "" {
		return nil, errors.New("connect to Azure: no subscription or no location: set AZURE_SUBSCRIPTION_ID and LOCATION")
	}
	c := &Cloud{Subscription: config.Subscription, Location: config.Location, config: config}
	options := &c.config.Options
	options.DisableRPRegistration = true // the subscription's owner registers providers
	options.PerRetryPolicies = append(options.PerRetryPolicies[:len(options.PerRetryPolicies):len(options.PerRetryPolicies)], newPace(config.Clock), fence{config.May}, patience{config.Clock})
	if options.Retry.MaxRetryDelay == 0 {
		options.Retry.MaxRetryDelay = maxRetryDelay
	}
	compute, err := armcompute.NewClientFactory(config.Subscription, config.Credential, options)
	if err != nil {
		return nil, fmt.Errorf("connect to Azure: %w", err)
	}
	if c.network, err = arm.NewClient("network", "v1.0.0", config.Credential, options); err != nil {
		return nil, fmt.Errorf("connect to Azure: %w", err)
	}
	if c.graph, err = armresourcegraph.NewClient(config.Credential, options); err != nil {
		return nil, fmt.Errorf("connect to Azure: %w", err)
	}
	c.machines, c.extensions, c.disks = compute.NewVirtualMachinesClient(), compute.NewVirtualMachineExtensionsClient(), compute.NewDisksClient()
	c.skus, c.usage = compute.NewResourceSKUsClient(), compute.NewUsageClient()
	c.community, c.versions = compute.NewCommunityGalleryImagesClient(), compute.NewCommunityGalleryImageVersionsClient()
	c.marketplace = compute.NewVirtualMachineImagesClient()
	return c, nil
}

// HasRetailPrices reports whether the cloud has a service with retail prices. Only the public cloud has one.
func (c *Cloud) HasRetailPrices() bool {
	return c.config.PricesURL != "" || c.config.Options.Cloud.ActiveDirectoryAuthorityHost == azcloud.AzurePublic.ActiveDirectoryAuthorityHost || len(c.config.Options.Cloud.Services) == 0
}

// pager is a pager of the SDK.
type pager[Page any] interface {
	More() bool
	NextPage(context.Context) (Page, error)
}

// all reads all pages of a pager.
func all[Page, Item any](ctx context.Context, call, about string, pages pager[Page], items func(Page) []*Item) (out []*Item, err error) {
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, decode(call, about, false, err)
		}
		out = append(out, items(page)...)
	}
	return out, nil
}
