// Prints every config definition of Apache Kafka as JSON, one scope after the other. Run by generate_config_registry.py
// over the reference's class path; it uses only what Kafka's own documentation generator uses.

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

public class ConfigDefinitions {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        ObjectNode scopes = JSON.createObjectNode();
        ObjectNode topics = scope(scopes, "topic", LogConfig.configKeys());
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, synonyms) -> {
            ArrayNode names = ((ObjectNode) topics.get(name)).putArray("synonyms");
            synonyms.forEach(synonym -> names.add(synonym.name()));
        });
        ObjectNode brokers = scope(scopes, "broker", kafka.server.KafkaConfig.configDef().configKeys());
        DynamicBrokerConfig.dynamicConfigUpdateModes().forEach((name, mode) -> {
            if (brokers.has(name)) ((ObjectNode) brokers.get(name)).put("update_mode", mode);
        });
        ObjectNode groups = scope(scopes, "group", GroupConfig.CONFIG_DEF.configKeys());
        for (Map.Entry<String, Optional<String>> each : GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.entrySet())
            each.getValue().ifPresent(name -> ((ObjectNode) groups.get(each.getKey())).putArray("synonyms").add(name));
        scope(scopes, "client-metrics", new ConfigDef(ClientMetricsConfigs.configDef()).configKeys());
        System.out.println(JSON.writerWithDefaultPrettyPrinter().writeValueAsString(scopes));
    }

    private static ObjectNode scope(ObjectNode scopes, String name, Map<String, ConfigDef.ConfigKey> keys) {
        ObjectNode scope = scopes.putObject(name);
        // In the order of definition: that is the order in which Kafka checks values.
        keys.forEach((key, definition) -> {
            ObjectNode row = scope.putObject(key);
            row.put("type", definition.type.toString());
            if (definition.hasDefault())
                row.put("default", ConfigDef.convertToString(definition.defaultValue, definition.type));
            else
                row.put("required", true);
            row.put("importance", definition.importance.toString());
            row.put("validator_class", definition.validator == null ? null : definition.validator.getClass().getName());
            row.put("valid", definition.validator == null ? null : definition.validator.toString());
            row.put("internal", definition.internalConfig);
            if (definition.validator instanceof ConfigDef.ValidList) {
                row.put("empty_allowed", flag(definition.validator, "isEmptyAllowed"));
                row.put("null_allowed", flag(definition.validator, "isNullAllowed"));
            }
        });
        return scope;
    }

    // What a list may be is known to its validator alone, which does not say it.
    private static boolean flag(ConfigDef.Validator validator, String name) {
        try {
            Field field = validator.getClass().getDeclaredField(name);
            field.setAccessible(true);
            return field.getBoolean(validator);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
