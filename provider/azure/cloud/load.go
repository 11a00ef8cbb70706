package cloud

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"k8s.io/utils/clock"
)

// Load reads the environment variables of Karpenter's users: AZURE_SUBSCRIPTION_ID or ARM_SUBSCRIPTION_ID, LOCATION, and the cloud from
// ARM_CLOUD or AZURE_ENVIRONMENT_FILEPATH. The SDK finds the credentials: a workload identity, a managed identity, or a secret.
func Load(clock clock.Clock) (Config, error) {
	config := Config{Location: os.Getenv("LOCATION"), Subscription: os.Getenv("AZURE_SUBSCRIPTION_ID"), Clock: clock}
	if config.Subscription == "" {
		config.Subscription = os.Getenv("ARM_SUBSCRIPTION_ID")
	}
	where, known, err := readCloud(os.Getenv("ARM_CLOUD"), os.Getenv("AZURE_ENVIRONMENT_FILEPATH"))
	if err != nil {
		return Config{}, fmt.Errorf("read which cloud of Azure is meant: %w", err)
	}
	config.Options.Cloud = where
	config.Credential, err = azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions:            config.Options.ClientOptions,
		DisableInstanceDiscovery: !known, // discovery knows only Microsoft's own clouds
	})
	if err != nil {
		return Config{}, fmt.Errorf("find credentials for Azure: %w", err)
	}
	return config, nil
}

// readCloud returns the cloud of a name or a file; known reports whether it is one of Microsoft's own.
func readCloud(name, file string) (where cloud.Configuration, known bool, err error) {
	if file == "" {
		switch strings.ToLower(name) {
		case "", "azurepubliccloud", "azurecloud":
			return cloud.AzurePublic, true, nil
		case "azurechinacloud":
			return cloud.AzureChina, true, nil
		case "azureusgovernment", "azureusgovernmentcloud":
			return cloud.AzureGovernment, true, nil
		}
		return where, false, fmt.Errorf("ARM_CLOUD is %q: none of AzurePublicCloud, AzureChinaCloud and AzureUSGovernment", name)
	}
	if name != "" {
		return where, false, fmt.Errorf("both ARM_CLOUD and AZURE_ENVIRONMENT_FILEPATH are set")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return where, false, err
	}
	var read struct {
		ResourceManagerEndpoint, ActiveDirectoryEndpoint, TokenAudience string
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return where, false, fmt.Errorf("%s: %w", file, err)
	}
	return cloud.Configuration{
		ActiveDirectoryAuthorityHost: read.ActiveDirectoryEndpoint,
		Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
			cloud.ResourceManager: {Endpoint: read.ResourceManagerEndpoint, Audience: read.TokenAudience},
		},
	}, false, nil
}
