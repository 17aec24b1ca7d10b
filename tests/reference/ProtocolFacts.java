import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/**
 * Prints what Kafka's clients know: "error code name", and "api key oldest latest" followed by the versions of the
 * request's and the answer's header for each version.
 */
public class ProtocolFacts {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            System.out.println("error " + error.code() + " " + error.name());
        }
        for (ApiKeys api : ApiKeys.values()) {
            if (api.latestVersion() < api.oldestVersion()) {
                continue;
            }
            StringBuilder line = new StringBuilder("api " + api.id + " " + api.oldestVersion() + " " + api.latestVersion(false));
            for (short version = api.oldestVersion(); version <= api.latestVersion(); version++) {
                line.append(' ').append(api.requestHeaderVersion(version)).append(api.responseHeaderVersion(version));
            }
            System.out.println(line);
        }
    }
}
