import CloakroomCore
import Configuration

/// A section of the configuration: typed values with defaults. Errors are collected in the reading.
struct ConfigScope {
    let reading: ConfigParser
    let path: [String]
    /// Whether the section is set in any layer. Keys of an absent section are looked up too, which registers them as
    /// known, but its defaults do not apply and none of its keys is reported as missing.
    let isPresent: Bool

    /// A section below this one.
    func section(_ name: String) -> ConfigScope {
        below([name], isPresent: isPresent && reading.isSectionSet(path + [name]))
    }

    /// A subsection whose defaults apply even if it is absent.
    func sectionWithDefaults(_ name: String) -> ConfigScope {
        below([name], isPresent: isPresent)
    }

    /// The items of a list of mappings. Flags and variables can change items and append one.
    func items(_ name: String) -> [ConfigScope] {
        let path = path + [name]
        var count = 0
        if case .value(let text) = reading.text(path + [YAMLProvider.count]) { count = Int(text) ?? 0 }
        while reading.isSectionSet(path + [String(count)]) { count += 1 }
        return (0..<count).map { below([name, String($0)], isPresent: isPresent) }
    }

    /// The sections of a mapping by name, in file order, followed by those that only flags name.
    func named(_ name: String) -> [(name: String, scope: ConfigScope)] {
        named(name, isSection: true).map { ($0, below([name, $0], isPresent: isPresent)) }
    }

    /// The names in a mapping, in file order, followed by those that only flags name.
    /// - Parameter isSection: Whether the values are sections, so that a flag names a key below them.
    func named(_ name: String, isSection: Bool) -> [String] {
        let path = path + [name]
        var names: [String] = []
        if case .value(let given) = reading.list(path + [YAMLProvider.names]) { names = given }
        for flag in reading.flagPaths where flag.count > path.count + (isSection ? 1 : 0) && flag.starts(with: path) {
            if !names.contains(flag[path.count]) { names.append(flag[path.count]) }
        }
        return names
    }

    /// The section at a path. A value that is not a section is an error; the section then counts as absent.
    private func below(_ names: [String], isPresent: Bool) -> ConfigScope {
        let path = path + names
        let word: String
        var remedy: String?
        switch reading.tree[path]?.shape {
        case nil, .empty?, .section?:
            return ConfigScope(reading: reading, path: path, isPresent: isPresent)
        case .scalar(let text)?: (word, remedy) = ("one value", Self.sectionRemedy(text, of: names.first ?? ""))
        case .list?: word = "a list"
        }
        if !reading.invalidKeys.contains(path) {
            reading.report(
                ConfigValueError(
                    "must be a section of keys, not \(word)", remedy ?? "write its keys below it, indented"), at: path)
        }
        return ConfigScope(reading: reading, path: path, isPresent: false)
    }

    // MARK: - Values

    /// A value with a default. A malformed value is an error; the default is then used to continue parsing.
    func value<Value>(_ name: String, as format: ValueFormat<Value>, default fallback: Value) -> Value {
        let given = optional(name, as: format)
        reading.document(path + [name]) { $0.defaultValue = format.render(fallback) }
        if let given { return given }
        if isPresent, reading.origin(path + [name]) == .defaultValue {
            reading.note(path + [name], format.render(fallback))
        }
        return fallback
    }

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
            reading.report(explained(error, text, name), at: key)
            return nil
        }
    }

    /// A required value; `nil` if it is missing or malformed, which is reported.
    func required<Value>(_ name: String, as format: ValueFormat<Value>) -> Value? {
        let value = optional(name, as: format)
        reading.document(path + [name]) { $0.isRequired = true }
        reportIfMissing(name)
        return value
    }

    /// A list of values; `nil` if it is absent or an item is malformed, which is reported.
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
                report(explained(error, text, name, isItem: true), at: name, item: index)
            }
        }
        guard values.count == texts.count else { return nil }
        reading.note(key, "[" + values.map(format.render).joined(separator: ", ") + "]")
        return values
    }

    /// Whether a key that has one value or a list is read as a list: a flag or a variable may have several values too.
    func isList(_ name: String) -> Bool {
        let key = path + [name]
        if reading.isSet(key, in: .flags) || reading.isSet(key, in: .environment) { return true }
        return if case .list? = reading.tree[key]?.shape { true } else { false }
    }

    /// A list with a default. If it is empty or malformed, which is reported, the default is used to continue parsing.
    func list<Value>(
        _ name: String, as format: ValueFormat<Value>, default fallback: [Value], allowsEmpty: Bool = false
    ) -> [Value] {
        let given =
            allowsEmpty
            ? list(name, as: format) : nonEmptyList(name, as: format, example: fallback.first.map(format.render))
        let shown = "[" + fallback.map(format.render).joined(separator: ", ") + "]"
        reading.document(path + [name]) { $0.defaultValue = shown }
        if isPresent, reading.origin(path + [name]) == .defaultValue { reading.note(path + [name], shown) }
        return given ?? fallback
    }

    /// A list whose default is documented but not printed as an effective value.
    func list<Value>(_ name: String, as format: ValueFormat<Value>, documented fallback: String) -> [Value]? {
        let values = list(name, as: format)
        reading.document(path + [name]) { $0.defaultValue = fallback }
        return values
    }

    /// A list with at least one value; `nil` if it is absent, empty or malformed, which is reported.
    /// - Parameter example: A value for the suggestion.
    func nonEmptyList<Value>(
        _ name: String, as format: ValueFormat<Value>, example: String? = nil
    ) -> [Value]? {
        guard let values = list(name, as: format) else { return nil }
        guard values.isEmpty else { return values }
        let remedy = example.map { "write at least one, such as \($0)" } ?? "write at least one"
        report(ConfigValueError("must not be empty", remedy), at: name)
        return nil
    }

    /// A required list with at least one value.
    func requiredList<Value>(_ name: String, as format: ValueFormat<Value>) -> [Value]? {
        let values = nonEmptyList(name, as: format)
        reading.document(path + [name]) { $0.isRequired = true }
        reportIfMissing(name)
        return values
    }

    private func reportIfMissing(_ name: String) {
        let key = path + [name]
        if isPresent, reading.origin(key) == .defaultValue, !reading.invalidKeys.contains(key) {
            reading.reportMissing(key)
        }
    }

    /// The entries of a mapping whose names are free, in file order, followed by those that only flags name. The
    /// documentation has one with the name `NAME`.
    /// - Parameter read: Reads the entry with a name; `nil` omits it.
    func entries<Value>(
        _ name: String, _ read: (_ section: ConfigScope, _ name: String) -> Value?
    ) -> [(name: String, value: Value)] {
        let section = section(name)
        guard !reading.invalidKeys.contains(section.path) else { return [] }
        let names = reading.documentation == nil ? named(name, isSection: false) : ["NAME"]
        return names.compactMap { entry in read(section, entry).map { (entry, $0) } }
    }

    // MARK: - Errors

    /// Reports an error at the value of a key of this section, or at an item of its list. Without a key, at this section
    /// itself, whose name is free.
    /// - Parameter causes: Other keys that the error depends on; see ``ConfigParser/report(_:at:becauseOf:)``.
    func report(
        _ error: ConfigValueError, at name: String? = nil, item: Int? = nil, becauseOf causes: [[String]] = []
    ) {
        guard let name else {
            return reading.add(error, key: path, origin: reading.tree[path].map { .file($0.key) } ?? .flag)
        }
        let key = path + [name]
        if let (place, origin) = location(of: item, in: key) {
            reading.add(error, key: place, origin: origin)
            reading.noteBroken(key)
        } else if causes.isEmpty {
            reading.report(error, at: key)
        } else {
            reading.report(error, at: key, becauseOf: causes)
        }
    }

    /// Reports an error with a suggested correction.
    func report(
        _ message: String, _ suggestion: String, at name: String? = nil, item: Int? = nil,
        becauseOf causes: [[String]] = []
    ) {
        report(ConfigValueError(message, suggestion), at: name, item: item, becauseOf: causes)
    }

    /// Reports that a required key of this section is missing.
    func reportMissing(_ name: String, _ reason: String, _ suggestion: String) {
        reading.reportMissing(path + [name], ConfigValueError("required key missing: \(reason)", suggestion))
    }

    /// Reports a warning at the value of a key of this section, or at an item of its list.
    func warn(_ warning: ConfigValueError, at name: String, item: Int? = nil) {
        let key = path + [name]
        let (place, origin) = location(of: item, in: key) ?? (key, reading.origin(key))
        reading.warn(warning, key: place, origin: origin)
    }

    /// Reports a warning with a suggested correction.
    func warn(_ message: String, _ suggestion: String, at name: String, item: Int? = nil) {
        warn(ConfigValueError(message, suggestion), at: name, item: item)
    }

    /// Reports a note at the value of a key of this section.
    func inform(_ message: String, _ suggestion: String, at name: String) {
        reading.inform(ConfigValueError(message, suggestion), at: path + [name])
    }

    /// The key and the location of an item of a list in the file; `nil` if the list has another source.
    private func location(of item: Int?, in key: [String]) -> ([String], ValueSource)? {
        guard let item, case .file = reading.origin(key), let entry = reading.tree[key + [String(item)]] else {
            return nil
        }
        return (key + [String(item)], .file(entry.value))
    }

    /// Reports this section unless its free name is a name without dots, which separate the keys of flags.
    func checkName(_ name: String) {
        do throws(ConfigValueError) {
            _ = try ValueFormat<String>.name.parse(name)
            try require(
                !name.contains("."), "must be a name without dots, not \(name.quoted)", "write a hyphen instead")
        } catch {
            report(error)
        }
    }

    /// Reports that a list contains something twice.
    /// - Returns: Whether it does.
    @discardableResult
    func reportRepetition(in list: [some Hashable], at key: String) -> Bool {
        guard Set(list).count < list.count else { return false }
        report("must be a list without duplicates", "keep one of them", at: key)
        return true
    }

    /// Whether a key is set in any layer.
    func isSet(_ name: String) -> Bool {
        reading.origin(path + [name]) != .defaultValue
    }

    /// Whether the key itself is set in a source of the gateway, not only its `…File` key or an OpenTelemetry variable.
    func isSetExplicitly(_ name: String) -> Bool {
        SourceLayer.allCases.contains { reading.isSet(path + [name], in: $0) }
    }

    /// Whether a key is set and invalid.
    func isInvalid(_ name: String) -> Bool {
        reading.invalidKeys.contains(path + [name])
    }
}

extension ConfigScope {
    /// A secret given in the key itself or in the file named by its `…File` key; one layer must not set both.
    func secret(_ name: String, as format: ValueFormat<Secret>, isRequired: Bool = true) -> Secret? {
        let twin = SecretFilesProvider.fileKey(of: name)
        // The order of the reference documentation.
        reading.document(path + [name]) { $0.isSecret = true }
        _ = optional(twin, as: secretFilePath)
        let value = optional(name, as: rejectingReferences(format, to: name), isSecret: true)
        reading.document(path + [twin]) { $0.expectation = Self.secretFile }
        reportIfBothSet(name, twin)
        if isRequired, isPresent, !isSet(name), !isSet(twin) { reading.reportMissing(path + [name]) }
        checkSource(name)
        if let value { recordPlaceholder(value, path + [name]) }
        return value
    }

    /// A list of secrets given in the key itself or in the file named by its `…File` key, one per line.
    /// - Parameters:
    ///   - isPair: Whether an item is `name=value` and only the value is secret.
    ///   - secret: Returns the secret part of an item.
    func secrets<Value>(
        _ name: String, as format: ValueFormat<Value>, isPair: Bool = false, _ secret: (Value) -> Secret
    ) -> [Value]? {
        let twin = SecretFilesProvider.fileKey(of: name)
        reading.document(path + [name]) { $0.isSecret = true }
        _ = optional(twin, as: secretFilePath)
        // Rendering redacts secrets.
        let values = list(name, as: rejectingReferences(format, to: name, isPair: isPair))
        reading.document(path + [twin]) { $0.expectation = Self.secretFile + ", one per line" }
        reportIfBothSet(name, twin)
        checkSource(name)
        // Collector headers may be non-secret, such as a tenant name.
        if !isPair { for value in values ?? [] { recordPlaceholder(secret(value), path + [name]) } }
        return values
    }

    private var secretFilePath: ValueFormat<String> {
        let directory = reading.directory
        return ValueFormat(
            "text", render: { SecretFile.shown($0, in: directory) }, parse: ValueFormat<String>.text.parse)
    }

    private static let secretFile = "path of a file that holds the secret"

    /// A format that rejects a variable reference in place of a secret.
    private func rejectingReferences<Value>(
        _ format: ValueFormat<Value>, to name: String, isPair: Bool = false
    ) -> ValueFormat<Value> {
        let twin = (path + [SecretFilesProvider.fileKey(of: name)]).joined(separator: ".")
        let instead =
            "set \(reading.variable(path + [name])) to the secret itself, or name a file that holds it in \(twin)"
        return ValueFormat(format.expectation, render: format.render) { text throws(ConfigValueError) in
            let secret = isPair ? text.drop { $0 != "=" }.dropFirst() : text[...]
            try require(
                !VariableReference.isOne(secret), "must be the secret itself: variable references are not supported",
                instead)
            return try format.parse(text)
        }
    }

    private func recordPlaceholder(_ secret: Secret, _ key: [String]) {
        if PlaceholderSecret.isOne(String(decoding: secret.bytes, as: UTF8.self)) { reading.recordPlaceholder(key) }
    }

    /// Warns if other users of the machine can read the source.
    private func checkSource(_ name: String) {
        switch reading.origin(path + [name]) {
        case .secretFile(let file): warnAboutAccess(to: file, at: name)
        case .flag:
            let twin = SecretFilesProvider.fileKey(of: name)
            warn(
                ConfigValueError(
                    "a secret on the command line stays in the shell's history, and other users can see it while the"
                        + " process starts",
                    "set \(reading.variable(path + [name])), or name a file that holds it in"
                        + " \((path + [twin]).joined(separator: "."))"), at: name)
        case .environment, .file, .defaultValue: break
        }
    }

    private func reportIfBothSet(_ name: String, _ twin: String) {
        for layer in [SourceLayer.flags, .environment, .file] {
            guard reading.isSet(path + [name], in: layer), reading.isSet(path + [twin], in: layer) else { continue }
            let origin: ValueSource? =
                switch layer {
                case .flags: .flag
                case .environment: .environment(reading.variable(path + [twin]))
                case .secretFiles, .openTelemetry, .file: reading.tree[path + [twin]].map { .file($0.value) }
                }
            reading.add(
                ConfigValueError("conflicts with \(name)", "keep one of the two"), key: path + [twin],
                origin: origin ?? .defaultValue
            )
        }
    }
}
