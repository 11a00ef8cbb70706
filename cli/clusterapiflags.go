package cli

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"tenon.sh/provider/clusterapi"
)

// clusterAPIFlags locate the management cluster of Cluster API by a kubeconfig or a URL. Without either, the cluster of the controller is the
// management cluster. The flags have the same names as in Karpenter's provider.
type clusterAPIFlags struct {
	ClusterAPIKubeconfig, ClusterAPIURL  string
	ClusterAPIToken, ClusterAPITokenFile string
	ClusterAPIAuthorities                string
	ClusterAPISkipTLSVerify              bool
}

func clusterAPIFlagNames() []string {
	return strings.Fields(`cluster-api-kubeconfig cluster-api-url cluster-api-token cluster-api-token-file
		cluster-api-certificate-authority-data cluster-api-skip-tls-verify`)
}

func (o *clusterAPIFlags) addFlags(flags *pflag.FlagSet) {
	defer heading(flags, "Flags of Cluster API")()
	flags.StringVar(&o.ClusterAPIKubeconfig, "cluster-api-kubeconfig", o.ClusterAPIKubeconfig, "a kubeconfig of the management cluster of Cluster API; without it and --cluster-api-url, it is this cluster")
	flags.StringVar(&o.ClusterAPIURL, "cluster-api-url", o.ClusterAPIURL, "URL of the management cluster's API server")
	flags.StringVar(&o.ClusterAPIToken, "cluster-api-token", o.ClusterAPIToken, "token for that URL; it is never renewed, so better name a file")
	flags.StringVar(&o.ClusterAPITokenFile, "cluster-api-token-file", o.ClusterAPITokenFile, "a file with the token for that URL, which is read again and again")
	flags.StringVar(&o.ClusterAPIAuthorities, "cluster-api-certificate-authority-data", o.ClusterAPIAuthorities, "certificate authorities of that URL in PEM, or the same in base64")
	flags.BoolVar(&o.ClusterAPISkipTLSVerify, "cluster-api-skip-tls-verify", o.ClusterAPISkipTLSVerify, "do not look at the certificate of that URL")
}

// check returns an error about a wrong option, with the flag's name.
func (o *clusterAPIFlags) check() error {
	if o.ClusterAPIURL == "" {
		for flag, given := range map[string]bool{
			"cluster-api-token": o.ClusterAPIToken != "", "cluster-api-token-file": o.ClusterAPITokenFile != "",
			"cluster-api-certificate-authority-data": o.ClusterAPIAuthorities != "", "cluster-api-skip-tls-verify": o.ClusterAPISkipTLSVerify,
		} {
			if given && o.ClusterAPIKubeconfig == "" {
				return fmt.Errorf("%s is for %s, which is empty", flagAndVariable(flag), flagAndVariable("cluster-api-url"))
			}
		}
		return nil
	}
	at, err := url.Parse(o.ClusterAPIURL)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "https":
		return fmt.Errorf("%s is %q: it must be a URL that begins with https://", flagAndVariable("cluster-api-url"), o.ClusterAPIURL)
	case o.ClusterAPIToken != "" && o.ClusterAPITokenFile != "":
		return fmt.Errorf("%s and %s are both given: one is enough", flagAndVariable("cluster-api-token"), flagAndVariable("cluster-api-token-file"))
	}
	if _, err := pemOf(o.ClusterAPIAuthorities); err != nil {
		return fmt.Errorf("%s: %w", flagAndVariable("cluster-api-certificate-authority-data"), err)
	}
	return nil
}

// pemOf reads certificates in PEM, or in base64 of PEM.
func pemOf(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	if block, _ := pem.Decode([]byte(text)); block != nil {
		return []byte(text), nil
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if block, _ := pem.Decode(decoded); err != nil || block == nil {
		return nil, errors.New("it must be certificates in PEM, or the same in base64")
	}
	return decoded, nil
}

// managementConfig returns the configuration for the management cluster; own is that of this cluster.
func (o *clusterAPIFlags) managementConfig(own *rest.Config) (*rest.Config, error) {
	config := rest.CopyConfig(own)
	switch {
	case o.ClusterAPIKubeconfig != "":
		var err error
		if config, err = clientcmd.BuildConfigFromFlags("", o.ClusterAPIKubeconfig); err != nil {
			return nil, fmt.Errorf("%s: %w", flagAndVariable("cluster-api-kubeconfig"), err)
		}
	case o.ClusterAPIURL != "":
		authorities, err := pemOf(o.ClusterAPIAuthorities)
		if err != nil {
			return nil, err
		}
		config = &rest.Config{
			Host: o.ClusterAPIURL, BearerToken: o.ClusterAPIToken, BearerTokenFile: o.ClusterAPITokenFile,
			TLSClientConfig: rest.TLSClientConfig{CAData: authorities, Insecure: o.ClusterAPISkipTLSVerify},
		}
		if o.ClusterAPISkipTLSVerify {
			config.CAData = nil
		}
	}
	config.QPS, config.Burst, config.UserAgent = own.QPS, own.Burst, own.UserAgent
	return config, nil
}

// newClusterAPI makes the provider. It connects to the management cluster in the background; if that fails, the node classes' conditions have
// the error.
func (c *autoscaler) newClusterAPI(mgr manager.Manager, p *parts) (*clusterapi.Provider, error) {
	config, err := c.opt.managementConfig(c.config)
	if err != nil {
		return nil, err
	}
	connection, err := clusterapi.NewConnection(config)
	if err != nil {
		return nil, err
	}
	made, err := clusterapi.New(clusterapi.Config{
		Client: mgr.GetClient(), Management: connection.Management, Clock: clock.RealClock{}, May: p.mgr.term.Check,
	})
	if err != nil {
		return nil, err
	}
	return made, mgr.Add(connection)
}
