import java.lang.reflect.Constructor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** Iceberg's own REST server on loopback: its `RESTCatalogServer` binds every interface, and is not called. */
class RestServer {
  public static void main(String[] arguments) throws Exception {
    Map<String, String> properties = new TreeMap<>();
    for (String line : Files.readAllLines(Path.of(arguments[1]))) {
      properties.put(line.substring(0, line.indexOf('=')), line.substring(line.indexOf('=') + 1));
    }
    Object hadoop = new org.apache.hadoop.conf.Configuration();
    var catalog = CatalogUtil.buildIcebergCatalog("rest", properties, hadoop);
    // The adapter that hands credentials out (`include-credentials=true`) is not public.
    var context = construct("org.apache.iceberg.rest.RESTCatalogServer$CatalogContext", catalog, properties);
    var adapter = construct("org.apache.iceberg.rest.RESTServerCatalogAdapter", context);
    var servlet = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    servlet.addServlet(new ServletHolder(new RESTCatalogServlet((RESTCatalogAdapter) adapter)), "/*");
    Server server = new Server();
    var connector = new ServerConnector(server);
    connector.setHost("127.0.0.1");
    connector.setPort(Integer.parseInt(arguments[0]));
    server.addConnector(connector);
    server.setHandler(servlet);
    server.start();
    server.join();
  }

  private static Object construct(String name, Object... arguments) throws Exception {
    Constructor<?> constructor = Class.forName(name).getDeclaredConstructors()[0];
    constructor.setAccessible(true);
    return constructor.newInstance(arguments);
  }
}
