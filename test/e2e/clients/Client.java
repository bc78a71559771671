import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.Authenticator;
import java.net.InetSocketAddress;
import java.net.PasswordAuthentication;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** The JDK's HttpClient with its defaults: it offers HTTP/2 by `Upgrade: h2c` in each plain call. */
class Client {
  public static void main(String[] args) throws Exception {
    URI proxy = URI.create(System.getenv("HTTP_PROXY"));
    // The JDK sends no Basic credentials to a proxy for HTTPS unless it is told to.
    System.setProperty("jdk.http.auth.tunneling.disabledSchemes", "");
    HttpClient client = HttpClient.newBuilder()
        .authenticator(proving(proxy.getUserInfo()))
        .proxy(ProxySelector.of(new InetSocketAddress(proxy.getHost(), proxy.getPort())))
        .sslContext(trusting(Path.of(System.getenv("SSL_CERT_FILE"))))
        .build();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] fields = line.split("\t");
      HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(fields[1]))
          .header("Content-Type", "application/json");
      request.method(fields[0], fields.length > 2 ? BodyPublishers.ofString(fields[2]) : BodyPublishers.noBody());
      HttpResponse<String> response = client.send(request.build(), BodyHandlers.ofString());
      String location = response.headers().firstValue("Location").orElse("");
      System.out.println(response.body() + "\t" + response.statusCode() + "\t" + location);
    }
  }

  private static Authenticator proving(String userInfo) {
    String[] pair = (userInfo == null ? ":" : userInfo).split(":", 2);
    return new Authenticator() {
      @Override
      protected PasswordAuthentication getPasswordAuthentication() {
        return new PasswordAuthentication(pair[0], pair[1].toCharArray());
      }
    };
  }

  /** Java reads no authorities from the environment. */
  private static SSLContext trusting(Path bundle) throws Exception {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    try (InputStream pem = Files.newInputStream(bundle)) {
      int index = 0;
      for (Certificate one : CertificateFactory.getInstance("X.509").generateCertificates(pem)) {
        store.setCertificateEntry("ca" + index++, one);
      }
    }
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, trust.getTrustManagers(), null);
    return context;
  }
}
