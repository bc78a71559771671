import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

/** Requests a URL with the standard library; prints status and body. */
public class Fetch {
  public static void main(String[] args) throws Exception {
    var request = HttpRequest.newBuilder(URI.create(args[0])).build();
    var response = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
    System.out.println(response.statusCode() + " " + response.body());
  }
}
