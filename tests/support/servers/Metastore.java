import java.net.InetSocketAddress;
import java.util.Timer;
import java.util.TimerTask;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.hadoop.hive.metastore.txn.TxnStore;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransportFactory;

/**
 * The Hive metastore on loopback: its own `main` binds every interface, and makes no tables for locks.
 *
 * <p>Arguments: the port, then settings of Hive as name=value.
 */
class Metastore {
  public static void main(String[] arguments) throws Exception {
    HiveConf conf = new HiveConf();
    for (int i = 1; i < arguments.length; i++) {
      int at = arguments[i].indexOf('=');
      conf.set(arguments[i].substring(0, at), arguments[i].substring(at + 1));
    }
    if (conf.getBoolean("calve.new", true)) {
      TxnDbUtil.prepDb(conf);
    }
    var handler = HiveMetaStore.newRetryingHMSHandler("metastore", conf, false);
    reapLocks(conf);
    var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
    var server =
        new TThreadPoolServer(
            new TThreadPoolServer.Args(new TServerSocket(address))
                .processor(new TSetIpAddressProcessor<>(handler))
                .transportFactory(new TTransportFactory())
                .protocolFactory(new TBinaryProtocol.Factory())
                .minWorkerThreads(4));
    server.serve();
  }

  /** What AcidHouseKeeperService does in a metastore that runs the compactor's initiator. */
  private static void reapLocks(HiveConf conf) {
    TxnStore locks = TxnUtils.getTxnStore(conf);
    new Timer(true)
        .schedule(
            new TimerTask() {
              @Override
              public void run() {
                locks.performTimeOuts();
              }
            },
            500,
            500);
  }
}
