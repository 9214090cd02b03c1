import Configuration

/// A section of the configuration, as the plans read it: typed values with their defaults, mistakes noted on the side.
struct ConfigScope {
    let reading: ConfigParser
    let path: [String]
    /// Whether anything is given in the section. The keys of an absent section are read too, since reading is how keys
    /// become known, but none of its defaults is in effect and nothing is missing in it.
    let isPresent: Bool

    /// A section below this one.
    func section(_ name: String) -> ConfigScope {
        below([name], isPresent: isPresent && reading.isSectionSet(path + [name]))
    }

    /// A section below this one whose defaults are in effect whether it is given or not.
    func sectionWithDefaults(_ name: String) -> ConfigScope {
        below([name], isPresent: isPresent)
    }

    /// The items of a list of mappings. Flags and variables may change items and add one behind the last.
    func items(_ name: String) -> [ConfigScope] {
        let path = path + [name]
        var count = 0
        if case .value(let text) = reading.text(path + [YAMLProvider.count]) { count = Int(text) ?? 0 }
        while reading.isSectionSet(path + [String(count)]) { count += 1 }
        return (0..<count).map { below([name, String($0)], isPresent: isPresent) }
    }

    /// The sections of a mapping by name, in the order of the file; those that only flags name come behind.
    func named(_ name: String) -> [(name: String, scope: ConfigScope)] {
        let path = path + [name]
        var names: [String] = []
        if case .value(let given) = reading.list(path + [YAMLProvider.names]) { names = given }
        for flag in reading.flagPaths where flag.count > path.count + 1 && flag.starts(with: path) {
            if !names.contains(flag[path.count]) { names.append(flag[path.count]) }
        }
        return names.map { ($0, below([name, $0], isPresent: isPresent)) }
    }

    /// The section under a path. One that is no section in the file is a mistake, and counts as absent from there on.
    private func below(_ names: [String], isPresent: Bool) -> ConfigScope {
        let path = path + names
        let word: String
        switch reading.tree[path]?.shape {
        case nil, .empty?, .section?:
            return ConfigScope(reading: reading, path: path, isPresent: isPresent)
        case .scalar?: word = "one value"
        case .list?: word = "a list"
        }
        if !reading.invalidKeys.contains(path) {
            reading.report(ConfigValueError("expects keys, not \(word)", "write its keys below it, indented"), at: path)
        }
        return ConfigScope(reading: reading, path: path, isPresent: false)
    }

    // MARK: - Values

    /// A value that has a default. A malformed one is a mistake; the default then only keeps the reading going.
    func value<Value>(_ name: String, as format: ValueFormat<Value>, default fallback: Value) -> Value {
        let given = optional(name, as: format)
        reading.document(path + [name]) { $0.defaultValue = format.render(fallback) }
        if let given { return given }
        if isPresent, reading.origin(path + [name]) == .defaultValue {
            reading.note(path + [name], format.render(fallback))
        }
        return fallback
    }

    /// A value that may be left out.
    func optional<Value>(_ name: String, as format: ValueFormat<Value>, isSecret: Bool = false) -> Value? {
        let key = path + [name]
        reading.document(key) { document in
            document.expectation = format.expectation
            document.isSecret = isSecret
        }
        guard case .value(let text) = reading.text(key, isSecret: isSecret) else { return nil }
        do {
            let value = try format.parse(text)
            reading.note(key, isSecret ? "<redacted>" : format.render(value))
            return value
        } catch {
            reading.report(error, at: key)
            return nil
        }
    }

    /// A value without which the section makes no sense; `nil` if it is missing or malformed, which is noted.
    func required<Value>(_ name: String, as format: ValueFormat<Value>) -> Value? {
        let value = optional(name, as: format)
        reading.document(path + [name]) { $0.isRequired = true }
        noteIfMissing(name)
        return value
    }

    /// A list of values; `nil` if it is absent, or if an item is malformed, which is noted.
    func list<Value>(_ name: String, as format: ValueFormat<Value>) -> [Value]? {
        let key = path + [name]
        reading.document(key) { document in
            document.expectation = format.expectation
            document.isList = true
        }
        guard case .value(let texts) = reading.list(key) else { return nil }
        var values: [Value] = []
        for (index, text) in texts.enumerated() {
            do {
                values.append(try format.parse(text))
            } catch {
                report(error, item: index, of: name)
            }
        }
        guard values.count == texts.count else { return nil }
        reading.note(key, "[" + values.map(format.render).joined(separator: ", ") + "]")
        return values
    }

    /// A list without which the section makes no sense.
    func requiredList<Value>(_ name: String, as format: ValueFormat<Value>) -> [Value]? {
        let values = list(name, as: format)
        reading.document(path + [name]) { $0.isRequired = true }
        noteIfMissing(name)
        if let values, values.isEmpty {
            report(ConfigValueError("is empty", "write at least one"), at: name)
            return nil
        }
        return values
    }

    private func noteIfMissing(_ name: String) {
        let key = path + [name]
        if isPresent, reading.origin(key) == .defaultValue, !reading.invalidKeys.contains(key) {
            reading.reportMissing(key)
        }
    }

    // MARK: - Mistakes

    /// Notes a mistake at the value of a key of this section.
    func report(_ valueError: ConfigValueError, at name: String) {
        reading.report(valueError, at: path + [name])
    }

    /// Notes a mistake at the value of a key of this section that follows from what other keys say; see
    /// ``ConfigParser/report(_:at:origin:becauseOf:)``.
    func report(_ valueError: ConfigValueError, at name: String, becauseOf causes: [[String]]) {
        reading.report(valueError, at: path + [name], becauseOf: causes)
    }

    /// Notes a problem that does not keep the configuration from being used, at the value of a key of this section.
    func warn(_ valueError: ConfigValueError, at name: String) {
        reading.warn(valueError, at: path + [name])
    }

    /// Adds an explanation of the value of a key of this section. It is neither an error nor a warning.
    func inform(_ valueError: ConfigValueError, at name: String) {
        reading.inform(valueError, at: path + [name])
    }

    /// Notes a problem at an item of a list that does not keep the configuration from being used.
    func warn(_ valueError: ConfigValueError, item: Int, of name: String) {
        let key = path + [name]
        if case .file = reading.origin(key), reading.tree[key + [String(item)]] != nil {
            reading.warn(valueError, item: item, of: key)
        } else {
            reading.warn(valueError, at: key)
        }
    }

    /// Notes a mistake at an item of a list.
    func report(_ valueError: ConfigValueError, item: Int, of name: String) {
        let key = path + [name]
        if case .file = reading.origin(key), let entry = reading.tree[key + [String(item)]] {
            reading.add(valueError, key: key + [String(item)], origin: .file(entry.value))
            reading.noteBroken(key)
        } else {
            reading.report(valueError, at: key)
        }
    }

    /// Whether a key was given by anybody.
    func isSet(_ name: String) -> Bool {
        reading.origin(path + [name]) != .defaultValue
    }

    /// Whether a key itself is given in one of our own sources, and not only its twin or a variable of others.
    func isSetExplicitly(_ name: String) -> Bool {
        SourceLayer.allCases.contains { reading.isSet(path + [name], in: $0) }
    }

    /// Whether a key was given and is wrong.
    func isInvalid(_ name: String) -> Bool {
        reading.invalidKeys.contains(path + [name])
    }
}
