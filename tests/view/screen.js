// The text on the screen: neither below the window nor scrolled out of a box.
() => {
    const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        const one = node.parentElement;
        if (!node.data.trim() || one.closest("script, style, option, dialog:not([open])") || !one.checkVisibility({ visibilityProperty: true })) continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        const box = range.getBoundingClientRect();
        let [top, end] = [0, innerHeight];
        for (let around = one; around; around = around.parentElement) {
            if (getComputedStyle(around).overflowY === "visible") continue;
            const edge = around.getBoundingClientRect();
            [top, end] = [Math.max(top, edge.top), Math.min(end, edge.bottom)];
        }
        if (box.top >= top - 1 && box.bottom <= end + 1 && box.left >= 0 && box.right <= innerWidth + 1) found.push(node.data);
    }
    return found.join("");
}
