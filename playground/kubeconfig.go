package playground

import (
	"fmt"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// adminGroup may do everything, because the API server grants its members all rights before it reads any role.
const adminGroup = "system:masters"

// RESTConfig returns the administrator's access. Each call returns a new copy. Its limit of requests is far above real use.
func (p *Playground) RESTConfig() *rest.Config { return rest.CopyConfig(p.admin) }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (p *Playground) Kubeconfig() string { return p.folder.path("kubeconfig") }

// UserConfig returns the access of a user with groups. RBAC determines its rights. For a service account the user is
// system:serviceaccount:<namespace>:<name>, its groups are system:serviceaccounts and system:serviceaccounts:<namespace>.
func (p *Playground) UserConfig(user string, groups ...string) (*rest.Config, error) {
	if user == "" {
		return nil, fmt.Errorf("access for a user: the name is empty")
	}
	id, err := p.cluster.client(user, groups...)
	if err != nil {
		return nil, fmt.Errorf("access for user %s: %w", user, err)
	}
	config := rest.CopyConfig(p.admin)
	config.CertData, config.KeyData = id.certPEM, id.keyPEM
	return config, nil
}

// UserKubeconfig writes a kubeconfig with the access of UserConfig to the playground's folder, and returns its path.
func (p *Playground) UserKubeconfig(user string, groups ...string) (string, error) {
	config, err := p.UserConfig(user, groups...)
	if err != nil {
		return "", err
	}
	path := p.folder.path("config", "user-"+url.PathEscape(user)+".kubeconfig")
	return path, writeKubeconfig(path, user, config)
}

// accessFor signs a certificate for a user and returns the access to an API server on a port.
func (p *Playground) accessFor(apiServer port, user string, groups ...string) (*rest.Config, error) {
	id, err := p.cluster.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            apiServer.url(),
		TLSClientConfig: rest.TLSClientConfig{CAData: p.cluster.certPEM, CertData: id.certPEM, KeyData: id.keyPEM},
		QPS:             clientQPS,
		Burst:           clientBurst,
	}, nil
}

func writeKubeconfig(path, user string, access *rest.Config) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["playground"] = &clientcmdapi.Cluster{Server: access.Host, CertificateAuthorityData: access.CAData}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: access.CertData, ClientKeyData: access.KeyData}
	config.Contexts["playground"] = &clientcmdapi.Context{Cluster: "playground", AuthInfo: user}
	config.CurrentContext = "playground"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}
