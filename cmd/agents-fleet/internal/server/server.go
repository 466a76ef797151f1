// Package server runs a Temporal server in this process, on a SQLite database in a file or
// in memory: for development, for tests, and for one machine.
//
//	s, err := server.Start(server.Options{Attributes: attributes})
//	defer s.Stop()
//	c, err := client.Dial(client.Options{HostPort: s.Address})
package server

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

const (
	// Namespace is the one namespace of the server.
	Namespace = "default"

	loopback    = "127.0.0.1"
	storeName   = "sqlite"
	clusterName = "active"
)

// Options of a Server. The zero value is a server in memory on a free port of the loopback
// interface.
type Options struct {
	// File is the database, which is created if it does not exist; "" keeps everything in
	// memory. Two servers must not use the same file at the same time.
	File string
	// Address is the host and port to listen on; a port of 0 is a free one.
	Address string
	// Attributes are the search attributes of workflows, with their types. They are
	// registered when the database is created.
	Attributes map[string]enums.IndexedValueType
	// LogFile receives the server's own errors; "" drops them.
	LogFile string
}

// A Server is a running Temporal server. All its services are in this process.
type Server struct {
	// Address is where clients reach it.
	Address string
	server  temporal.Server
}

// Start starts a server. The caller must stop it.
func Start(o Options) (*Server, error) {
	host, port, err := listenable(cmp.Or(o.Address, loopback+":0"))
	if err != nil {
		return nil, err
	}
	conf, hosts, err := configuration(host, port)
	if err != nil {
		return nil, err
	}
	database, err := o.database()
	if err != nil {
		return nil, err
	}
	conf.Persistence = config.Persistence{DefaultStore: storeName, VisibilityStore: storeName, NumHistoryShards: 1, DataStores: map[string]config.DataStore{storeName: {SQL: database}}}
	logger := log.Logger(log.NewNoopLogger())
	if o.LogFile != "" {
		logger = log.NewZapLogger(log.BuildZapLogger(log.Config{Level: "error", OutputFile: o.LogFile}))
	}
	s, err := temporal.NewServer(temporal.WithConfig(conf), temporal.ForServices(temporal.DefaultServices), temporal.WithStaticHosts(hosts), temporal.WithLogger(logger), temporal.WithDynamicConfigClient(settings()))
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the Temporal server: %w", err)
	}
	if ip := net.ParseIP(host); ip.IsUnspecified() {
		host = loopback
	}
	return &Server{Address: join(host, port), server: s}, nil
}

// Stop stops the server and closes its connections.
func (s *Server) Stop() error { return s.server.Stop() }

// listenable splits an address and finds a free port if it names none. The server
// reports a port that is in use only in its log.
func listenable(address string) (host string, port int, err error) {
	host, _, err = net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", 0, err
	}
	tcp := l.Addr().(*net.TCPAddr)
	if host == "" || net.ParseIP(host) == nil {
		host = tcp.IP.String()
	}
	return host, tcp.Port, l.Close()
}

func join(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// configuration is that of a cluster of one host. Only the frontend listens on the given
// address, the other services on free ports of the loopback interface.
func configuration(host string, port int) (*config.Config, map[primitives.ServiceName]static.Hosts, error) {
	conf := &config.Config{Services: map[string]config.Service{}}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for _, name := range []primitives.ServiceName{primitives.FrontendService, primitives.HistoryService, primitives.MatchingService, primitives.WorkerService} {
		rpc := config.RPC{GRPCPort: port, BindOnIP: host}
		if name != primitives.FrontendService {
			_, free, err := listenable(loopback + ":0")
			if err != nil {
				return nil, nil, err
			}
			rpc = config.RPC{GRPCPort: free, BindOnIP: loopback}
		}
		conf.Services[string(name)] = config.Service{RPC: rpc}
		hosts[name] = static.SingleLocalHost(join(loopback, rpc.GRPCPort))
	}
	frontend := join(host, port)
	if net.ParseIP(host).IsUnspecified() {
		frontend = join(loopback, port)
	}
	hosts[primitives.FrontendService] = static.SingleLocalHost(frontend)
	conf.PublicClient.HostPort = frontend
	conf.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: loopback}
	conf.DCRedirectionPolicy.Policy = "noop"
	conf.Archival.History.State, conf.Archival.Visibility.State = "disabled", "disabled"
	conf.NamespaceDefaults.Archival.History.State, conf.NamespaceDefaults.Archival.Visibility.State = "disabled", "disabled"
	conf.ClusterMetadata = &cluster.Config{
		FailoverVersionIncrement: 10, MasterClusterName: clusterName, CurrentClusterName: clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend}},
	}
	return conf, hosts, nil
}

// database creates the database with the namespace, if it does not exist.
func (o Options) database() (*config.SQL, error) {
	conf := &config.SQL{PluginName: sqliteplugin.PluginName, DatabaseName: o.File}
	if o.File == "" {
		conf.DatabaseName = "fleet" + strconv.FormatUint(rand.Uint64(), 36)
		conf.ConnectAttributes = map[string]string{"mode": "memory", "cache": "shared"}
	} else {
		// A transaction survives the end of the process, and the file that of the machine.
		conf.ConnectAttributes = map[string]string{"mode": "rwc", "journal_mode": "wal", "synchronous": "normal", "busy_timeout": "10000"}
		if _, err := os.Stat(o.File); errors.Is(err, fs.ErrNotExist) {
			if err := create(o.File); err != nil {
				return nil, fmt.Errorf("create %s: %w", o.File, err)
			}
		} else if err != nil {
			return nil, err
		}
	}
	namespace, err := sqlite.NewNamespaceConfig(clusterName, Namespace, false, o.Attributes)
	if err == nil {
		err = sqlite.CreateNamespaces(conf, namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("create the namespace %s: %w", Namespace, err)
	}
	return conf, nil
}

// create makes the tables in another file, so that a file is complete whatever ends the
// process.
func create(file string) error {
	begun := file + ".new"
	if err := os.Remove(begun); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(begun, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := sqlite.SetupSchema(&config.SQL{PluginName: sqliteplugin.PluginName, DatabaseName: begun, ConnectAttributes: map[string]string{"mode": "rwc"}}); err != nil {
		return err
	}
	return os.Rename(begun, file)
}

// settings make the server suit one machine: a task queue is one partition, whose tasks
// need no forwarding, and no rate limit is below what SQLite can do. Worker versioning
// (deployments) is on by default.
func settings() dynamicconfig.StaticClient {
	const unlimited = 1_000_000
	return dynamicconfig.StaticClient{
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():                  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key():                 1,
		dynamicconfig.FrontendRPS.Key():                                         unlimited,
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key():                  unlimited,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key():        unlimited,
		dynamicconfig.FrontendPersistenceMaxQPS.Key():                           unlimited,
		dynamicconfig.HistoryRPS.Key():                                          unlimited,
		dynamicconfig.HistoryPersistenceMaxQPS.Key():                            unlimited,
		dynamicconfig.MatchingRPS.Key():                                         unlimited,
		dynamicconfig.MatchingPersistenceMaxQPS.Key():                           unlimited,
		dynamicconfig.FrontendMaxConcurrentLongRunningRequestsPerInstance.Key(): unlimited,
		dynamicconfig.TransferProcessorMaxPollRPS.Key():                         unlimited, // each task waits for a poll
		dynamicconfig.TimerProcessorMaxPollRPS.Key():                            unlimited,
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key():                        8192,
		dynamicconfig.EnableServerVersionCheck.Key():                            false,
	}
}
