import CloakroomCore

extension ConfigScope {
    /// A secret, which stands in the key itself or in the file that its twin names; not in both within one layer.
    func secret(_ name: String, as format: ValueFormat<Secret>, isRequired: Bool = true) -> Secret? {
        let twin = SecretFilesProvider.fileKey(of: name)
        // In the order in which people read of them.
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

    /// A list of secrets, which stands in the key itself or in the file that its twin names, one a line.
    /// - Parameters:
    ///   - isPair: Whether an item is `name=value`, and only the value is the secret.
    ///   - secret: The secret of an item.
    func secrets<Value>(
        _ name: String, as format: ValueFormat<Value>, isPair: Bool = false, _ secret: (Value) -> Secret
    ) -> [Value]? {
        let twin = SecretFilesProvider.fileKey(of: name)
        reading.document(path + [name]) { $0.isSecret = true }
        _ = optional(twin, as: secretFilePath)
        // How a secret is rendered does not show it.
        let values = list(name, as: rejectingReferences(format, to: name, isPair: isPair))
        reading.document(path + [twin]) { $0.expectation = Self.secretFile + ", one a line" }
        reportIfBothSet(name, twin)
        checkSource(name)
        // A field of a collector may be no secret at all, such as a tenant's name.
        if !isPair { for value in values ?? [] { recordPlaceholder(secret(value), path + [name]) } }
        return values
    }

    private var secretFilePath: ValueFormat<String> {
        let directory = reading.directory
        return ValueFormat(
            "text", parse: ValueFormat<String>.text.parse, render: { SecretFile.shown($0, in: directory) })
    }

    private static let secretFile = "path of a file that holds the secret"

    /// A format that does not take a reference to a variable for a secret.
    private func rejectingReferences<Value>(
        _ format: ValueFormat<Value>, to name: String, isPair: Bool = false
    ) -> ValueFormat<Value> {
        let twin = (path + [SecretFilesProvider.fileKey(of: name)]).joined(separator: ".")
        let instead =
            "set \(reading.variable(path + [name])) to the secret itself, or name a file that holds it in \(twin)"
        return ValueFormat(
            format.expectation,
            parse: { text throws(ConfigValueError) in
                let secret = isPair ? text.drop { $0 != "=" }.dropFirst() : text[...]
                guard !VariableReference.isOne(secret) else {
                    throw ConfigValueError("is a reference to a variable, which nothing here replaces", instead)
                }
                return try format.parse(text)
            }, render: format.render)
    }

    private func recordPlaceholder(_ secret: Secret, _ key: [String]) {
        if PlaceholderSecret.isOne(String(decoding: secret.bytes, as: UTF8.self)) { reading.recordPlaceholder(key) }
    }

    /// Warns of a source that other users of the machine can read.
    private func checkSource(_ name: String) {
        switch reading.origin(path + [name]) {
        case .secretFile(let file): warnIfReadableByOthers(file, at: name)
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
                ConfigValueError("stands beside \(name)", "keep one of the two"), key: path + [twin],
                origin: origin ?? .defaultValue
            )
        }
    }
}
