import CloakroomCore
import Configuration

/// Provides the values of `--set key=value` flags. Lists are separated by commas. The last flag for a key wins.
struct OverrideProvider: StaticConfigProvider, Unprintable {
    let providerName = "flags"
    let values: [[String]: String]

    init(_ overrides: [(key: String, value: String)]) {
        var values: [[String]: String] = [:]
        for (key, value) in overrides { values[Self.path(key)] = value }
        self.values = values
    }

    static func path(_ key: String) -> [String] {
        key.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
    }

    func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
        let content = values[key.components].map { text -> ConfigContent in
            guard type == .stringArray else { return .string(text) }
            let items = text.split(separator: ",", omittingEmptySubsequences: false)
            return .stringArray(items.map { String($0.trimmingPrefix(while: \.isWhitespace)) })
        }
        return LookupResult(
            encodedKey: key.components.joined(separator: "."), value: content.map { ConfigValue($0, isSecret: false) })
    }
}
