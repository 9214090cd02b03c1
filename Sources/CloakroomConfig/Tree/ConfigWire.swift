/// A configuration file read as far as its keys and values go, for nothing but to see how long it takes: for fuzzing.
package enum ConfigWire {
    /// How many entries a YAML document has; `nil` if it cannot be read.
    package static func entryCount(yaml: [UInt8]) -> Int? {
        guard let text = String(validating: yaml, as: UTF8.self) else { return nil }
        return try? YAMLTree(yaml: text) { _ in }.order.count
    }
}
