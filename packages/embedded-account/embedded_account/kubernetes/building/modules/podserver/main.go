// Podserver is the part of a kubelet that kubectl reaches: logs, exec and port-forward of pods whose programs run as
// processes of this machine.
//
// The streams are those of the kubelet's own library; what it does for a pod stands in a file that the rehearsal's
// kubelet (kubelet.py) keeps: RECORDS/<namespace>_<pod>.json, see Pod. Other pods' containers do not run: their
// requests are refused. Only a holder of a client certificate of the control plane's authority is served, because
// whoever is served runs commands as the rehearsal's user.
//
//	podserver serve -address 127.0.0.1:PORT -records DIR -certificate F -key F -ca F
//	podserver dial HOST:PORT    connects standard input and output with a port (run in a pod's network)
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

const (
	idleTimeout     = 4 * time.Hour
	creationTimeout = 30 * time.Second
	// What ops/readiness/simulated.py looks for.
	simulated = "is simulated: no program runs in it; `make rehearse KEEP=1 JOBS=1` runs real Ray"
)

// Pod says how to reach what runs for a pod.
type Pod struct {
	// Containers whose program runs, by name.
	Containers map[string]Container `json:"containers"`
	// Dial is a command that connects its standard input and output to the address appended to it, seen from inside
	// the pod. Empty: the pod has no network of its own, and Ports says where its ports are.
	Dial []string `json:"dial"`
	// Ports: container port to HOST:PORT of this machine.
	Ports map[int32]string `json:"ports"`
}

// Container says how to read and enter a container.
type Container struct {
	Log     string `json:"log"`
	Running bool   `json:"running"`
	// Enter is put before a command so that it runs inside the container; empty: it just runs on this machine.
	Enter       []string `json:"enter"`
	Environment []string `json:"environment"`
	Directory   string   `json:"directory"`
}

type server struct {
	records string
}

func (s *server) pod(namespace, name string) (*Pod, error) {
	data, err := os.ReadFile(filepath.Join(s.records, filepath.Base(namespace+"_"+name+".json")))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("pod %s/%s %s", namespace, name, simulated)
	}
	if err != nil {
		return nil, err
	}
	pod := &Pod{}
	return pod, json.Unmarshal(data, pod)
}

func (s *server) container(namespace, pod, name string) (*Container, error) {
	found, err := s.pod(namespace, pod)
	if err != nil {
		return nil, err
	}
	container, known := found.Containers[name]
	if !known {
		return nil, fmt.Errorf("container %s of pod %s/%s %s", name, namespace, pod, simulated)
	}
	return &container, nil
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.logs)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", s.exec)
	mux.HandleFunc("/exec/{namespace}/{pod}/{uid}/{container}", s.exec)
	mux.HandleFunc("/portForward/{namespace}/{pod}", s.portForward)
	mux.HandleFunc("/portForward/{namespace}/{pod}/{uid}", s.portForward)
	return mux
}

func (s *server) exec(response http.ResponseWriter, request *http.Request) {
	options, err := remotecommand.NewOptions(request)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	name := request.PathValue("container")
	container, refusal := s.container(request.PathValue("namespace"), request.PathValue("pod"), name)
	if refusal == nil && !container.Running {
		refusal = fmt.Errorf("container %s does not run", name)
	}
	// A refusal goes through the stream: as an answer to the request, kubectl would not show it.
	remotecommand.ServeExec(response, request, executor{container, refusal}, request.PathValue("pod"), "", name,
		request.URL.Query()["command"], options, idleTimeout, creationTimeout,
		remotecommand.SupportedStreamingProtocols)
}

func (s *server) portForward(response http.ResponseWriter, request *http.Request) {
	pod, refusal := s.pod(request.PathValue("namespace"), request.PathValue("pod"))
	options, err := portforward.NewV4Options(request)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	// As with exec, a refusal goes through the stream: kubectl would print an error without a text.
	portforward.ServePortForward(response, request, forwarder{pod, refusal}, request.PathValue("pod"), "", options, idleTimeout,
		creationTimeout, portforward.SupportedProtocols)
}

func serve(arguments []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	address := flags.String("address", "", "HOST:PORT to listen on")
	records := flags.String("records", "", "folder with a file per pod")
	certificate := flags.String("certificate", "", "the server's certificate")
	key := flags.String("key", "", "its key")
	authority := flags.String("ca", "", "certificate authority of the clients")
	_ = flags.Parse(arguments)
	pem, err := os.ReadFile(*authority)
	if err != nil {
		return err
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s holds no certificate", *authority)
	}
	listening := &http.Server{
		Addr:    *address,
		Handler: (&server{records: *records}).handler(),
		// The streams take the connection over, which HTTP/2 does not let them.
		TLSConfig: &tls.Config{
			ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs:  clients,
			MinVersion: tls.VersionTLS13,
			NextProtos: []string{"http/1.1"},
		},
		ReadHeaderTimeout: creationTimeout,
	}
	return listening.ListenAndServeTLS(*certificate, *key)
}

func main() {
	log.SetFlags(log.LstdFlags)
	err := errors.New("usage: podserver serve … | podserver dial HOST:PORT")
	switch {
	case len(os.Args) > 1 && os.Args[1] == "serve":
		err = serve(os.Args[2:])
	case len(os.Args) == 3 && os.Args[1] == "dial":
		err = dial(context.Background(), os.Args[2], standardStreams{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "podserver:", err)
		os.Exit(1)
	}
}
