import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;

/**
 * Sends bodies with the JDK's HttpClient as it is by default: it asks for HTTP/2 with each request.
 *
 * <pre>  URL BODY...   prints the status of each answer</pre>
 */
public class Post {
    public static void main(String[] args) throws Exception {
        var client = HttpClient.newHttpClient();
        for (var i = 1; i < args.length; i++) {
            var request = HttpRequest.newBuilder(URI.create(args[0]))
                    .header("Content-Type", "application/json")
                    .POST(BodyPublishers.ofString(args[i]))
                    .build();
            System.out.println(client.send(request, BodyHandlers.ofString()).statusCode());
        }
    }
}
