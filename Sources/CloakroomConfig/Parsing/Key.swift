import CloakroomCore

/// A section that is read key by key, in the order of ``keys``.
protocol ConfigSection: Sendable {
    /// The keys in the order of the reference. The reference, `print-config` and the keys that require a restart follow
    /// from them.
    static var keys: [Key<Self>] { get }

    /// Reports values that conflict with each other. Called after all keys were read.
    func check(_ scope: ConfigScope)
}

extension ConfigSection {
    func check(_ scope: ConfigScope) {}

    /// Reads all keys. Keys that are not set keep their values, which are the defaults.
    mutating func read(from scope: ConfigScope) {
        for key in Self.keys { key.read(scope, &self) }
        check(scope)
    }
}

/// A property of a section's value.
typealias Property<Section, Value> = any WritableKeyPath<Section, Value> & Sendable

/// A key of a section: the property that it sets, its notation, and whether a change of it requires a restart.
struct Key<Section: Sendable>: Sendable {
    /// What a change of a key requires while the gateway runs.
    enum Change {
        case reload
        case restart
    }

    /// Reads the key into a section that has the default.
    let read: @Sendable (ConfigScope, inout Section) -> Void
    /// The key, or keys below it, if their change requires a restart.
    let fixed: [FixedKey<Section>]

    /// A key with a default.
    init<Value: Equatable & Sendable>(
        _ name: String, _ property: Property<Section, Value>, _ format: ValueFormat<Value>,
        _ change: Change = .reload
    ) {
        self.init(name, property, change) { scope, section in
            section[keyPath: property] = scope.value(name, as: format, default: section[keyPath: property])
        }
    }

    /// A key without a default.
    init<Value: Equatable & Sendable>(
        optional name: String, _ property: Property<Section, Value?>, _ format: ValueFormat<Value>,
        _ change: Change = .reload
    ) {
        self.init(name, property, change) { $1[keyPath: property] = $0.optional(name, as: format) }
    }

    /// A secret without a default.
    init(
        secret name: String, _ property: Property<Section, Secret?>, _ format: ValueFormat<Secret>,
        _ change: Change = .reload
    ) {
        self.init(name, property, change) {
            $1[keyPath: property] = $0.secret(name, as: format, isRequired: false)
        }
    }

    /// A list that is empty by default.
    init<Value: Equatable & Sendable>(
        list name: String, _ property: Property<Section, [Value]>, _ format: ValueFormat<Value>,
        _ change: Change = .reload
    ) {
        self.init(name, property, change) { $1[keyPath: property] = $0.list(name, as: format) ?? [] }
    }

    /// A section whose defaults apply even if it is absent.
    init<Value: ConfigSection>(section name: String, _ property: Property<Section, Value>) {
        read = { $1[keyPath: property].read(from: $0.sectionWithDefaults(name)) }
        fixed = Value.fixed(below: name, of: property)
    }

    /// A key, or several, with a reading of its own.
    /// - Parameters:
    ///   - name: The name, relative to the section, if a change requires a restart.
    ///   - property: What is compared to recognize a change.
    init<Value: Equatable & Sendable>(
        _ name: String, _ property: any KeyPath<Section, Value> & Sendable, _ change: Change,
        _ read: @escaping @Sendable (ConfigScope, inout Section) -> Void
    ) {
        self.read = read
        fixed = change == .restart ? [FixedKey(name) { $0[keyPath: property] }] : []
    }

    /// A key, or several, with a reading of its own, whose change requires no restart.
    init(_ read: @escaping @Sendable (ConfigScope, inout Section) -> Void) {
        self.read = read
        fixed = []
    }
}

/// A key whose change requires a restart, or a section with all its keys, and the comparison of two values in it.
struct FixedKey<Section: Sendable>: Sendable {
    let path: [String]
    let differs: @Sendable (Section, Section) -> Bool

    init<Value: Equatable & Sendable>(_ name: String, _ value: @escaping @Sendable (Section) -> Value) {
        self.init(name.split(separator: ".").map(String.init)) { value($0) != value($1) }
    }

    init(_ path: [String], differs: @escaping @Sendable (Section, Section) -> Bool) {
        self.path = path
        self.differs = differs
    }
}

extension ConfigSection {
    /// The keys of this section whose change requires a restart, as keys of the section around it.
    static func fixed<Root>(
        below name: String, of property: any KeyPath<Root, Self> & Sendable
    ) -> [FixedKey<Root>] {
        keys.flatMap(\.fixed).map { key in
            FixedKey([name] + key.path) { key.differs($0[keyPath: property], $1[keyPath: property]) }
        }
    }
}
