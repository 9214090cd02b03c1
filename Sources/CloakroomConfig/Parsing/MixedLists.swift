/// Lists whose items are single values or sections: `upstreams.NAME.targets`.
///
/// A list of values only is read as a list of values, as by a flag or a variable. As soon as one item is a section, or
/// a flag or a variable sets a key of an item, all items are read as sections. An item with a single value then is a
/// section with the key ``valueKey``.
enum MixedLists {
    /// The key of the value of an item that is written as a single value.
    static let valueKey = "url"

    /// The sources with every flag for an item of a mixed list as a flag for its value.
    static func expanding(_ sources: ConfigSources) -> ConfigSources {
        var result = sources
        for (index, override) in sources.overrides.enumerated() {
            let path = OverrideProvider.path(override.key)
            guard isMixedList(Array(path.dropLast())), let item = path.last, Int(item) != nil else { continue }
            result.overrides[index].key += ".\(valueKey)"
        }
        return result
    }

    /// The file with every item of a mixed list as a section.
    static func expanding(_ tree: YAMLTree, sources: ConfigSources) -> YAMLTree {
        var result = tree
        for path in tree.order where isMixedList(path) {
            guard case .list(let count)? = tree[path]?.shape, hasSections(path, in: tree, sources) else { continue }
            for item in (0..<count).map({ path + [String($0)] }) {
                guard let entry = tree[item], case .scalar = entry.shape else { continue }
                result.insert(
                    YAMLTree.Entry(key: entry.key, value: entry.value, shape: .section([valueKey])), at: item)
                result.insert(entry, at: item + [valueKey])
            }
        }
        return result
    }

    /// Whether an item of the list is a section, or a flag or a variable sets a key of an item.
    static func hasSections(_ path: [String], in tree: YAMLTree, _ sources: ConfigSources) -> Bool {
        if case .list(let count)? = tree[path]?.shape {
            for item in 0..<count {
                switch tree[path + [String(item)]]?.shape {
                case .section?, .empty?: return true
                case .scalar?, .list?, nil: continue
                }
            }
        }
        let isFlagged = sources.overrides.contains { override in
            let key = OverrideProvider.path(override.key)
            return key.count > path.count + 1 && key.starts(with: path)
        }
        if isFlagged { return true }
        guard sources.hasVariables else { return false }
        let prefix = EnvironmentVariableNames.variable(path + ["0"]).dropLast()
        return sources.environment.keys.contains { name in
            guard name.hasPrefix(prefix) else { return false }
            let rest = name.dropFirst(prefix.count)
            return rest.first?.isNumber == true && rest.contains("_")
        }
    }

    private static func isMixedList(_ path: [String]) -> Bool {
        path.count == 3 && path[0] == "upstreams" && path[2] == "targets"
    }
}
